/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.c: what becomes of the outputs of a run: printed, written as files, compared with files; see command.h. */
#include "compiler/command/command.h"
#include "compiler/files/npy.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- printed or written -------------------------------------------------------------------------------- */

static void print_tensor(const char *name, const op_tensor *tensor) {
    char text[256];
    int64_t elements = 0;
    op_shape_elements(&tensor->type.shape, &elements);
    printf("%s: %s:", name, op_type_print(&tensor->type, text, sizeof text));
    for (int64_t i = 0; i < elements && i < 5; i++) {
        printf(" %s", file_tensor_element_print(tensor, (size_t)i, text, sizeof text));
    }
    if (elements > 5) printf(" ...");
    if (elements == 0) printf(" (no elements)");
    op_dtype dtype = tensor->type.dtype;
    bool numbers = dtype != OP_STRING && dtype != OP_COMPLEX64 && dtype != OP_COMPLEX128 && dtype != OP_BOOL;
    if (elements > 1 && numbers) {
        double least = INFINITY, most = -INFINITY, sum = 0;
        int64_t not_numbers = 0;
        for (int64_t i = 0; i < elements; i++) {
            double value = file_tensor_number(tensor, (size_t)i);
            if (isnan(value)) {
                not_numbers++;
                continue;
            }
            if (value < least) least = value;
            if (value > most) most = value;
            sum += value;
        }
        if (not_numbers < elements) {
            printf("; min %.6g, max %.6g, mean %.6g", least, most, sum / (double)(elements - not_numbers));
        }
        if (not_numbers) printf("; %lld NaN", (long long)not_numbers);
    }
    printf("\n");
}

/* "DIR/NAME.npy", the name made safe for any file system; `index` tells apart what would be the same file. */
static char *output_path(const char *directory, const char *name, size_t index, base_arena *arena) {
    char *path = index ? base_arena_format(arena, "%s/%s_%zu.npy", directory, name, index)
                       : base_arena_format(arena, "%s/%s.npy", directory, name);
    for (char *at = path ? path + strlen(directory) + 1 : NULL; at && *at; at++) {
        bool kept = (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') ||
                    *at == '_' || *at == '.' || *at == '-';
        if (!kept) *at = '_';
    }
    return path;
}

/* What becomes of the outputs: they are printed, or written as files. */
typedef struct output_writer {
    const char *directory; /* NULL: they are printed */
    base_arena arena;
    base_map taken; /* paths */
    base_report report;
} output_writer;

/* The path of the next output with this name; NULL when memory runs out. */
static char *next_path(output_writer *w, const char *name) {
    char *path = output_path(w->directory, name, 0, &w->arena);
    for (size_t k = 1; path && base_map_get(&w->taken, path); k++)
        path = output_path(w->directory, name, k, &w->arena);
    return path && base_map_put(&w->taken, path, path) ? path : NULL;
}

static bool write_tensor(output_writer *w, const char *name, const op_tensor *tensor) {
    char *path = next_path(w, name);
    unsigned char *bytes;
    size_t size;
    if (!path) base_fail_memory(&w->report);
    else if (file_npy_encode(tensor, &w->arena, &bytes, &size, &w->report) == BASE_OK)
        file_write(path, bytes, size, &w->report);
    if (w->report.status != BASE_OK) return false;
    printf("%s\n", path);
    return true;
}

static char *element_name(base_arena *arena, ouro_kind kind, const char *name, size_t index) {
    if (kind == OURO_MAP) return base_arena_format(arena, "%s.%s", name, index ? "values" : "keys");
    return base_arena_format(arena, "%s.%zu", name, index);
}

/* A tensor; of a sequence or an optional each element, as NAME.0, NAME.1, ...; of a map NAME.keys and NAME.values. */
static bool write_value(output_writer *w, const char *name, const ouro_value *value) {
    if (value->kind == OURO_TENSOR) {
        const op_tensor tensor = command_value_tensor(value);
        if (w->directory) return write_tensor(w, name, &tensor);
        print_tensor(name, &tensor);
        return true;
    }
    if (!w->directory) {
        if (value->kind == OURO_MAP)
            printf("%s: a map, %" PRId64 " keys\n", name, value->count ? value->elements[0].dims[0] : 0);
        else
            printf("%s: %s, %zu element%s\n", name,
                   value->kind == OURO_SEQUENCE ? "a sequence" : "an optional", value->count,
                   value->count == 1 ? "" : "s");
    }
    for (size_t i = 0; i < value->count; i++) {
        char *own = element_name(&w->arena, value->kind, name, i);
        if (!own) {
            base_fail_memory(&w->report);
            return false;
        }
        if (!write_value(w, own, &value->elements[i])) return false;
    }
    return true;
}

int command_write_values(const char *directory, const char *const *names, const ouro_value *values,
                         size_t count) {
    output_writer w = {.directory = directory};
    base_arena_init(&w.arena, NULL);
    w.taken.arena = &w.arena;
    int status = directory ? (int)file_make_directory(directory, &w.report) : 0;
    if (status) command_fail_report(&w.report);
    for (size_t i = 0; i < count && status == 0; i++)
        if (!write_value(&w, names[i], &values[i])) status = command_fail_report(&w.report);
    base_arena_free(&w.arena);
    return status;
}

int command_write_outputs(const command_model *model, ouro_session *session, const char *directory) {
    const size_t count = ouro_plan_output_count(model->handle);
    base_arena arena;
    base_arena_init(&arena, NULL);
    const char **names = BASE_ARRAY(&arena, const char *, count);
    ouro_value *values = BASE_ARRAY(&arena, ouro_value, count);
    int status = names && values ? 0 : command_fail_memory();
    for (size_t i = 0; i < count && status == 0; i++) {
        ouro_tensor_info info;
        ouro_error error;
        (void)ouro_plan_output(model->handle, i, &info);
        names[i] = info.name;
        if (ouro_session_output_value(session, i, &values[i], &error) != OURO_OK)
            status = command_fail_error(&error);
    }
    if (!status) status = command_write_values(directory, names, values, count);
    base_arena_free(&arena);
    return status;
}

/* ---- compared ------------------------------------------------------------------------------------------ */

/* bfloat16 is written as float32, so that is what such an output is compared with. */
static bool widen(const ouro_value *actual, const import_value *expected, base_arena *arena,
                  ouro_value *widened) {
    *widened = *actual;
    const bool written = actual->kind == OURO_TENSOR && actual->dtype == OURO_BFLOAT16 &&
                         expected->kind == OP_KIND_TENSOR && expected->tensor.type.dtype == OP_FLOAT;
    if (!written) return true;
    const size_t count = actual->bytes / sizeof(uint16_t);
    float *data = BASE_ARRAY(arena, float, count + 1);
    for (size_t i = 0; i < count && data; i++)
        data[i] = base_float_from_bfloat16(((const uint16_t *)actual->data)[i]);
    widened->dtype = OURO_FLOAT;
    widened->data = data;
    widened->bytes = count * sizeof *data;
    return data != NULL;
}

/* The expected value of a name: its file, or (a sequence, an optional) those of its elements. False, with the report
 * filled, where there is none. */
static bool read_expected(output_writer *r, const char *name, const ouro_value *actual, import_value *value) {
    if (actual->kind == OURO_TENSOR) {
        char *path = next_path(r, name);
        *value = (import_value){.kind = OP_KIND_TENSOR};
        if (!path) base_fail_memory(&r->report);
        else file_npy_read(path, &r->arena, &value->tensor, &r->report);
        return r->report.status == BASE_OK;
    }
    *value = (import_value){.kind = (op_kind)actual->kind, .count = actual->count};
    value->elements = BASE_ARRAY(&r->arena, import_value, actual->count + 1);
    if (!value->elements) base_fail_memory(&r->report);
    for (size_t i = 0; i < actual->count && r->report.status == BASE_OK; i++) {
        char *own = element_name(&r->arena, actual->kind, name, i);
        if (!own) base_fail_memory(&r->report);
        else read_expected(r, own, &actual->elements[i], &value->elements[i]);
    }
    return r->report.status == BASE_OK;
}

/* The type of an output, as its .pb file needs it. */
static op_type type_of_output(const command_model *model, size_t index) {
    op_type type;
    plan_interface_type(model->plan, &model->plan->outputs[index], &type);
    return type;
}

static int expect_output(const command_model *model, output_writer *r, size_t index, const ouro_value *actual,
                         tensor_tolerance tolerance) {
    const char *name = model->plan->texts + model->plan->outputs[index].name;
    char *pb = base_arena_format(&r->arena, "%s/output_%zu.pb", r->directory, index);
    const op_type type = type_of_output(model, index);
    import_value expected;
    ouro_value widened;
    tensor_errors errors = {0};
    char reason[1024];
    if (!pb) base_fail_memory(&r->report);
    else if (access(pb, F_OK) == 0) import_value_read(pb, &type, &r->arena, &expected, &r->report);
    else read_expected(r, name, actual, &expected);
    if (r->report.status == BASE_OK && !widen(actual, &expected, &r->arena, &widened))
        base_fail_memory(&r->report);
    if (r->report.status != BASE_OK) return command_fail_report(&r->report);
    if (!command_compare(&widened, &expected, tolerance, &errors, reason, sizeof reason))
        return command_fail(BASE_INVALID, "%s: output '%s' %s", r->directory, name, reason);
    printf("%s: as expected, errors of at most %.3g, relative %.3g\n", name, errors.absolute,
           errors.relative);
    return 0;
}

int command_expect_outputs(const command_model *model, ouro_session *session, const char *directory,
                           tensor_tolerance tolerance) {
    output_writer r = {.directory = directory};
    base_arena_init(&r.arena, NULL);
    r.taken.arena = &r.arena;
    int status = 0;
    for (size_t i = 0; i < ouro_plan_output_count(model->handle) && status == 0; i++) {
        ouro_value value;
        ouro_error error;
        if (ouro_session_output_value(session, i, &value, &error) != OURO_OK)
            status = command_fail_error(&error);
        else status = expect_output(model, &r, i, &value, tolerance);
    }
    base_arena_free(&r.arena);
    return status;
}

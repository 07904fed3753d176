/* SPDX-License-Identifier: Apache-2.0 */
/* onnxruntime.c: see onnxruntime.h. The library is found when it is asked for: nothing is linked, and no header of it is
 * needed, since its interface is a table of functions whose order never changes. */
#include "compiler/command/onnxruntime.h"
#include "compiler/command/command.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Rows of the table of version 1, those that are used. */
enum {
    ROW_GET_ERROR_MESSAGE = 2,
    ROW_CREATE_ENV = 3,
    ROW_CREATE_SESSION = 7,
    ROW_RUN = 9,
    ROW_CREATE_SESSION_OPTIONS = 10,
    ROW_SET_INTRA_THREADS = 24,
    ROW_CREATE_TENSOR_WITH_DATA = 49,
    ROW_IS_TENSOR = 50,
    ROW_GET_TENSOR_DATA = 51,
    ROW_GET_ELEMENT_TYPE = 60,
    ROW_GET_DIMENSION_COUNT = 61,
    ROW_GET_DIMENSIONS = 62,
    ROW_GET_TENSOR_TYPE = 65,
    ROW_CREATE_CPU_MEMORY_INFO = 69,
    ROW_RELEASE_ENV = 92,
    ROW_RELEASE_STATUS = 93,
    ROW_RELEASE_MEMORY_INFO = 94,
    ROW_RELEASE_SESSION = 95,
    ROW_RELEASE_VALUE = 96,
    ROW_RELEASE_TENSOR_TYPE = 99,
    ROW_RELEASE_SESSION_OPTIONS = 100
};

typedef void any_function(void);
typedef struct api_base {
    any_function *const *(*get_api)(uint32_t version);
    const char *(*version)(void);
} api_base;

struct onnxruntime {
    void *library;
    any_function *const *api;
    void *environment, *options, *memory;
};

/* A function of the table, as what it is. */
#define CALL(runtime, row, returns, ...) ((returns(*)(__VA_ARGS__))(runtime)->api[row])

/* A status is NULL, or an error that is told and given back. */
static base_status check(const onnxruntime *runtime, void *status, const char *what, base_report *report) {
    if (!status) return BASE_OK;
    const char *message = CALL(runtime, ROW_GET_ERROR_MESSAGE, const char *, void *)(status);
    base_fail(report, BASE_INVALID, "ONNX Runtime: %s: %.600s", what, message);
    CALL(runtime, ROW_RELEASE_STATUS, void, void *)(status);
    return BASE_INVALID;
}

static void *open_library(base_report *report) {
    const char *named = getenv("OURO_ONNXRUNTIME");
    void *library = dlopen(named && named[0] ? named : "libonnxruntime.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library && !(named && named[0])) library = dlopen("libonnxruntime.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        base_fail(
            report, BASE_USAGE,
            "ONNX Runtime is not there: %s; the variable OURO_ONNXRUNTIME may name its libonnxruntime.so",
            dlerror());
    return library;
}

base_status command_onnxruntime_load(onnxruntime **made, base_report *report) {
    onnxruntime *runtime = calloc(1, sizeof *runtime);
    *made = NULL;
    if (!runtime) return base_fail_memory(report);
    runtime->library = open_library(report);
    const api_base *(*get_base)(void) = NULL;
    void *symbol = runtime->library ? dlsym(runtime->library, "OrtGetApiBase") : NULL;
    memcpy(&get_base, &symbol, sizeof symbol); /* as POSIX has it */
    if (symbol) runtime->api = get_base()->get_api(1);
    if (!runtime->api) {
        if (runtime->library) base_fail(report, BASE_USAGE, "the library named as ONNX Runtime is none");
        command_onnxruntime_free(runtime);
        return BASE_USAGE;
    }
    enum { ERRORS_ONLY = 3, ARENA_ALLOCATOR = 1, DEFAULT_MEMORY = 0 };
    base_status status = check(runtime,
                               CALL(runtime, ROW_CREATE_ENV, void *, int, const char *,
                                    void **)(ERRORS_ONLY, "ouro", &runtime->environment),
                               "its environment", report);
    if (status == BASE_OK)
        status = check(runtime, CALL(runtime, ROW_CREATE_SESSION_OPTIONS, void *, void **)(&runtime->options),
                       "its options", report);
    if (status == BASE_OK)
        status =
            check(runtime, CALL(runtime, ROW_SET_INTRA_THREADS, void *, void *, int)(runtime->options, 1),
                  "its threads", report);
    if (status == BASE_OK)
        status = check(runtime,
                       CALL(runtime, ROW_CREATE_CPU_MEMORY_INFO, void *, int, int,
                            void **)(ARENA_ALLOCATOR, DEFAULT_MEMORY, &runtime->memory),
                       "its memory", report);
    if (status != BASE_OK) {
        command_onnxruntime_free(runtime);
        return status;
    }
    *made = runtime;
    return BASE_OK;
}

void command_onnxruntime_free(onnxruntime *runtime) {
    if (!runtime) return;
    if (runtime->memory) CALL(runtime, ROW_RELEASE_MEMORY_INFO, void, void *)(runtime->memory);
    if (runtime->options) CALL(runtime, ROW_RELEASE_SESSION_OPTIONS, void, void *)(runtime->options);
    if (runtime->environment) CALL(runtime, ROW_RELEASE_ENV, void, void *)(runtime->environment);
    /* The library stays: threads of its own may still be in it. */
    free(runtime);
}

/* ---- runs --------------------------------------------------------------------------------------------- */

static base_status make_value(const onnxruntime *runtime, const char *name, const import_value *value,
                              void **made, base_report *report) {
    const op_tensor *tensor = &value->tensor;
    if (value->kind != OP_KIND_TENSOR || tensor->type.dtype == OP_STRING)
        return base_fail_unsupported(report, "'%s': only tensors of numbers are compared with ONNX Runtime",
                                     name);
    int64_t dims[OP_MAX_RANK];
    memcpy(dims, tensor->type.shape.dims, sizeof dims);
    return check(runtime,
                 CALL(runtime, ROW_CREATE_TENSOR_WITH_DATA, void *, void *, void *, size_t, const int64_t *,
                      size_t, int, void **)(runtime->memory, tensor->data, tensor->bytes, dims,
                                            (size_t)tensor->type.shape.rank, (int)tensor->type.dtype, made),
                 name, report);
}

static base_status read_type(const onnxruntime *runtime, void *value, op_type *type, base_report *report) {
    void *about = NULL;
    int dtype = 0;
    size_t rank = 0;
    base_status status =
        check(runtime, CALL(runtime, ROW_GET_TENSOR_TYPE, void *, void *, void **)(value, &about), "a type",
              report);
    if (status == BASE_OK)
        status = check(runtime, CALL(runtime, ROW_GET_ELEMENT_TYPE, void *, void *, int *)(about, &dtype),
                       "a type", report);
    if (status == BASE_OK)
        status =
            check(runtime, CALL(runtime, ROW_GET_DIMENSION_COUNT, void *, void *, size_t *)(about, &rank),
                  "a rank", report);
    if (status == BASE_OK &&
        (rank > OP_MAX_RANK || op_dtype_bits((op_dtype)dtype) == 0 || dtype == OP_STRING))
        status = base_fail_unsupported(report, "an output of ONNX Runtime is no tensor of numbers");
    if (status == BASE_OK) {
        *type = (op_type){.dtype = (op_dtype)dtype, .shape = {.rank = (int32_t)rank}};
        status = check(runtime,
                       CALL(runtime, ROW_GET_DIMENSIONS, void *, void *, int64_t *,
                            size_t)(about, type->shape.dims, rank),
                       "a shape", report);
    }
    if (about) CALL(runtime, ROW_RELEASE_TENSOR_TYPE, void, void *)(about);
    return status;
}

static base_status read_output(const onnxruntime *runtime, void *value, import_value *output,
                               base_arena *arena, base_report *report) {
    int is_tensor = 0;
    void *data = NULL;
    *output = (import_value){.kind = OP_KIND_TENSOR};
    op_tensor *tensor = &output->tensor;
    base_status status = check(
        runtime, CALL(runtime, ROW_IS_TENSOR, void *, void *, int *)(value, &is_tensor), "an output", report);
    if (status == BASE_OK && !is_tensor)
        status = base_fail_unsupported(report, "an output of ONNX Runtime is no tensor of numbers");
    if (status == BASE_OK) status = read_type(runtime, value, &tensor->type, report);
    if (status == BASE_OK)
        status = check(runtime, CALL(runtime, ROW_GET_TENSOR_DATA, void *, void *, void **)(value, &data),
                       "an output", report);
    if (status != BASE_OK) return status;
    tensor->data =
        op_type_bytes(&tensor->type, &tensor->bytes) ? rt_arena_aligned(arena, tensor->bytes + 1) : NULL;
    if (!tensor->data) return base_fail_memory(report);
    if (tensor->bytes) memcpy(tensor->data, data, tensor->bytes);
    return BASE_OK;
}

static base_status create_session(const onnxruntime *runtime, const char *model, int threads, void **session,
                                  base_report *report) {
    base_status status =
        check(runtime, CALL(runtime, ROW_SET_INTRA_THREADS, void *, void *, int)(runtime->options, threads),
              "its threads", report);
    if (status != BASE_OK) return status;
    return check(runtime,
                 CALL(runtime, ROW_CREATE_SESSION, void *, void *, const char *, void *,
                      void **)(runtime->environment, model, runtime->options, session),
                 "reading the model", report);
}

base_status command_onnxruntime_open(onnxruntime *runtime, const char *model, int threads,
                                     const char *const *names, const import_value *inputs, size_t input_count,
                                     size_t output_count, base_arena *arena, onnxruntime_session *session,
                                     base_report *report) {
    *session = (onnxruntime_session){.runtime = runtime,
                                     .names = names,
                                     .values = BASE_ARRAY(arena, void *, input_count + output_count + 1),
                                     .input_count = input_count,
                                     .output_count = output_count};
    if (!session->values) return base_fail_memory(report);
    memset(session->values, 0, (input_count + output_count + 1) * sizeof(void *));
    base_status status = create_session(runtime, model, threads, &session->session, report);
    for (size_t i = 0; i < input_count && status == BASE_OK; i++)
        status = make_value(runtime, names[i], &inputs[i], &session->values[i], report);
    return status;
}

static void release_values(onnxruntime_session *session, size_t first, size_t count) {
    for (void **value = session->values + first; count-- > 0; value++) {
        if (*value) CALL(session->runtime, ROW_RELEASE_VALUE, void, void *)(*value);
        *value = NULL;
    }
}

base_status command_onnxruntime_bind(onnxruntime_session *session, size_t index, const import_value *value,
                                     base_report *report) {
    release_values(session, index, 1);
    return make_value(session->runtime, session->names[index], value, &session->values[index], report);
}

base_status command_onnxruntime_run_again(onnxruntime_session *session, double *seconds,
                                          base_report *report) {
    const onnxruntime *runtime = session->runtime;
    if (!session->bound) release_values(session, session->input_count, session->output_count);
    const double start = command_seconds();
    void *failed = CALL(runtime, ROW_RUN, void *, void *, void *, const char *const *, void *const *, size_t,
                        const char *const *, size_t, void **)(
        session->session, NULL, session->names, session->values, session->input_count,
        session->names + session->input_count, session->output_count, session->values + session->input_count);
    *seconds = command_seconds() - start;
    return check(runtime, failed, "running the model", report);
}

void command_onnxruntime_close(onnxruntime_session *session) {
    if (!session->runtime) return;
    if (session->values) release_values(session, 0, session->input_count + session->output_count);
    if (session->session) CALL(session->runtime, ROW_RELEASE_SESSION, void, void *)(session->session);
    *session = (onnxruntime_session){0};
}

base_status command_onnxruntime_run(onnxruntime *runtime, const char *model, const char *const *names,
                                    const import_value *inputs, size_t input_count, import_value *outputs,
                                    size_t output_count, base_arena *arena, double *seconds,
                                    base_report *report) {
    onnxruntime_session session;
    *seconds = 0;
    base_status status = command_onnxruntime_open(runtime, model, 1, names, inputs, input_count, output_count,
                                                  arena, &session, report);
    if (status == BASE_OK) status = command_onnxruntime_run_again(&session, seconds, report);
    for (size_t i = 0; i < output_count && status == BASE_OK; i++)
        status = read_output(runtime, session.values[input_count + i], &outputs[i], arena, report);
    command_onnxruntime_close(&session);
    return status;
}

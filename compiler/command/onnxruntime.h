/* SPDX-License-Identifier: Apache-2.0 */
/* onnxruntime.h: ONNX Runtime where it is installed, to compare with. */
#ifndef OURO_COMMAND_ONNXRUNTIME_H
#define OURO_COMMAND_ONNXRUNTIME_H

#include "compiler/onnx/import.h"

typedef struct onnxruntime onnxruntime;

/* Loads the shared library of ONNX Runtime (1.0 or newer): the one that the environment's OURO_ONNXRUNTIME names, else
 * libonnxruntime.so.1 or libonnxruntime.so where the dynamic linker finds them. BASE_USAGE where there is none. */
base_status command_onnxruntime_load(onnxruntime **runtime, base_report *report);
void command_onnxruntime_free(onnxruntime *runtime); /* NULL is allowed */

/* A model that is read, with its inputs. Begin with zeros. */
typedef struct onnxruntime_session {
    onnxruntime *runtime;
    void *session;
    const char *const *names; /* of the inputs, then of the outputs */
    void **values;            /* likewise; outputs: of the last run */
    size_t input_count, output_count;
    bool bound; /* all outputs lie where the caller says, by command_onnxruntime_bind */
} onnxruntime_session;

/* Reads the model file, to run it on `threads` threads on these inputs (tensors, no strings), which stay where they are, like
 * the names, as long as the session. command_onnxruntime_close in either case. */
base_status command_onnxruntime_open(onnxruntime *runtime, const char *model, int threads,
                                     const char *const *names, const import_value *inputs, size_t input_count,
                                     size_t output_count, base_arena *arena, onnxruntime_session *session,
                                     base_report *report);
/* Value `index`, of the inputs and then of the outputs, lies in this memory, which stays the caller's, until it is bound anew. */
base_status command_onnxruntime_bind(onnxruntime_session *session, size_t index, const import_value *value,
                                     base_report *report);
/* One run; *seconds is its time. */
base_status command_onnxruntime_run_again(onnxruntime_session *session, double *seconds, base_report *report);
void command_onnxruntime_close(onnxruntime_session *session);

/* Runs the model file on `input_count` values (tensors, no strings) with one thread. `names` are those of its inputs, then
 * of its outputs. The outputs, tensors likewise, get memory from `arena`; *seconds is the time of the run alone. What is no such
 * tensor marks the report as unsupported. */
base_status command_onnxruntime_run(onnxruntime *runtime, const char *model, const char *const *names,
                                    const import_value *inputs, size_t input_count, import_value *outputs,
                                    size_t output_count, base_arena *arena, double *seconds,
                                    base_report *report);

#endif

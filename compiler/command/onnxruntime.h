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

/* Runs the model file on `input_count` values (tensors, no strings) with one thread. `names` are those of its inputs, then
 * of its outputs. The outputs, tensors likewise, get memory from `arena`; *seconds is the time of the run alone. What is no such
 * tensor marks the report as unsupported. */
base_status command_onnxruntime_run(onnxruntime *runtime, const char *model, const char *const *names,
                                    const import_value *inputs, size_t input_count, import_value *outputs,
                                    size_t output_count, base_arena *arena, double *seconds,
                                    base_report *report);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* import.h: ONNX files: models into the IR, data files into values. The only files that know protobuf are those
 * that implement this header.
 */
#ifndef OURO_IMPORT_H
#define OURO_IMPORT_H

#include "compiler/onnx/base/dim.h"
#include "ir/ir.h"

/* ---- models (model.c) ---------------------------------------------------------------------------------- */

/* Reads a model file into a module of its own (freed with ir_module_free), with every operator in its
 * canonical form. Symbolic dimensions named in `dims` get their extents; a name that the model lacks is an
 * error that lists those that it has. `allocator` NULL: the heap. On failure *module is NULL. What is valid
 * but not supported marks the report (base_fail_unsupported). */
base_status import_model(const char *path, const import_dim *dims, size_t dim_count,
                         const base_allocator *allocator, ir_module **module, base_report *report);

/* The same, where inputs named in `kept` that have a default value (an initializer of their name) stay inputs. Else such inputs are constants. Names that
 * the model lacks are no error here. */
typedef struct import_options {
    const import_dim *dims;
    size_t dim_count;
    const char *const *kept;
    size_t kept_count;
} import_options;
base_status import_model_with(const char *path, const import_options *options,
                              const base_allocator *allocator, ir_module **module, base_report *report);

/* ---- data files (value.c) ------------------------------------------------------------------------------------- */

/* What a TensorProto, SequenceProto, MapProto or OptionalProto holds. */
typedef struct import_value {
    op_kind kind;
    op_tensor tensor; /* OP_KIND_TENSOR: row-major, data aligned to 64 bytes */
    struct import_value
        *elements; /* of a sequence; the one value of an optional; the keys and the values of a map */
    size_t count;  /* of them; 0: the optional is empty */
} import_value;

/* Reads a .pb file. The file does not say which message it holds: `expected` (the type of the model's input
 * or output) does; NULL means a tensor. Everything lives in `arena`; `path` is in every message. BASE_INVALID
 * for a malformed file. */
base_status import_value_read(const char *path, const op_type *expected, base_arena *arena,
                              import_value *value, base_report *report);

/* Operators that have no kernel because they are said in terms of others when a model is read: "ReduceL1", ... by
 * index; NULL after the last. *since is the first version that is read, *domain the operator's. Thread-safe.
 * (check.c) */
const char *import_composed_operator(size_t index, const char **domain, int *since);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h: tensors as .npy files, the format of numpy: how the command reads inputs and writes outputs.
 *
 * Read: format versions 1, 2 and 3; C and Fortran order; little- and big-endian headers; booleans, integers
 * of 1 to 8 bytes, float16, float32, float64, complex64 and complex128; fixed-width text (S and U) as
 * strings. Nothing in a file is trusted: the header is parsed, never evaluated, and its shape must fit the
 * bytes that follow. Written: version 1, C order, little-endian. bfloat16, which numpy lacks, is written as
 * float32 (exact); strings as fixed-width UTF-8 bytes ('S').
 */
#ifndef OURO_NPY_H
#define OURO_NPY_H

#include "ir/operators/op.h"

/* Reads a whole file. The tensor is row-major, its data in `arena`, aligned to 64 bytes. `path` is
 * in every message. BASE_INVALID for a malformed file, BASE_SYSTEM_ERROR where it cannot be read. */
base_status file_npy_read(const char *path, base_arena *arena, op_tensor *tensor, base_report *report);

/* The same for bytes in memory; `name` stands in messages for the path. */
base_status file_npy_decode(const unsigned char *bytes, size_t size, const char *name, base_arena *arena,
                            op_tensor *tensor, base_report *report);

/* The bytes of a file holding a row-major tensor, in `arena`. */
base_status file_npy_encode(const op_tensor *tensor, base_arena *arena, unsigned char **bytes, size_t *size,
                            base_report *report);

#endif

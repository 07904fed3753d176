/* SPDX-License-Identifier: Apache-2.0 */
/* npz.h: several tensors in one file, numpy's .npz: a zip archive of .npy files, stored or deflated.
 *
 * Nothing in a file is trusted: offsets and sizes must lie within it, what is inflated must have the size and the checksum that the
 * archive says, and no more memory is taken than its bytes can become. */
#ifndef OURO_NPZ_H
#define OURO_NPZ_H

#include "ir/operators/op.h"

typedef struct file_npz_member {
    const char *name; /* without ".npy" */
    size_t offset;    /* of its local header */
    size_t stored, size;
    uint32_t checksum;
    uint16_t method, flags;
} file_npz_member;

/* What is in an archive, in its order. */
typedef struct file_npz {
    const unsigned char *bytes;
    size_t size;
    const char *path; /* for messages */
    file_npz_member *members;
    size_t count;
} file_npz;

/* The bytes begin as zip archives do. */
bool file_is_npz(const unsigned char *bytes, size_t size);
/* Lists an archive; its bytes and path are kept by the caller, the list is in `arena`. BASE_INVALID: it is malformed. */
base_status file_npz_open(const unsigned char *bytes, size_t size, const char *path, base_arena *arena,
                          file_npz *archive, base_report *report);
/* The member of this name; the last of several. NULL: there is none. */
const file_npz_member *file_npz_find(const file_npz *archive, const char *name);
/* Reads a member as a row-major tensor, its data in `arena`, aligned to 64 bytes. */
base_status file_npz_read(const file_npz *archive, const file_npz_member *member, base_arena *arena,
                          op_tensor *tensor, base_report *report);

#endif

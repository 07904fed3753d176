/* SPDX-License-Identifier: Apache-2.0 */
/* files.h: whole files in, whole files out. */
#ifndef OURO_FILES_H
#define OURO_FILES_H

#include "ir/base/base.h"

/* The bytes of a file: read, not mapped, so that a file that shrinks meanwhile is an error and not a signal.
 */
typedef struct file_bytes {
    unsigned char *data; /* never NULL after success; aligned to 64 bytes, from malloc */
    size_t size;
} file_bytes;

/* Reads a whole file. BASE_INVALID where there is no such file or it is a directory or may not be read,
 * BASE_SYSTEM_ERROR where reading fails; the message begins with the path. */
base_status file_read(const char *path, file_bytes *bytes, base_report *report);
void file_release(file_bytes *bytes);

/* Writes a whole file or nothing: at any time, also after a power failure, the name stands for the old file or for the new
 * one. The bytes go to PATH.tmp-N beside it (N from 0), are made to last and then renamed; on failure the temporary file is
 * removed, and so is what a killed run left, by the next one that writes to this path. Any number of threads and
 * processes may write to one path: the last one wins. What exists and is not a regular file (/dev/null, a pipe) is
 * written directly. A link to a file is replaced, not followed; somebody else's link in a folder that all may write is refused.
 * BASE_INVALID for a directory or such a link, BASE_SYSTEM_ERROR where the machine fails. */
base_status file_write(const char *path, const void *bytes, size_t size, base_report *report);

/* Makes a directory, with those above it, where it does not exist yet. */
base_status file_make_directory(const char *path, base_report *report);

#endif

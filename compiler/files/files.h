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

/* Writes a whole file or nothing: to PATH.tmp-PID beside it, then renamed over it; the temporary file is
 * removed on failure. What exists and is not a regular file (/dev/null, a pipe) is written directly. */
base_status file_write(const char *path, const void *bytes, size_t size, base_report *report);

/* Makes a directory, with those above it, where it does not exist yet. */
base_status file_make_directory(const char *path, base_report *report);

#endif

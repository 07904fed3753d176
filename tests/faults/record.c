/* SPDX-License-Identifier: Apache-2.0 */
/* record.c: a library to load before a program (LD_PRELOAD) that writes down what it does to files, in order, to the file that
 * OURO_RECORD names. A call is a line: open FILE FLAGS PATH; write FILE BYTES, and after the line these bytes; fsync FILE; close FILE;
 * rename FROM TO; unlink PATH. Failed calls are not written down. Used by power_loss.py. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One line, and bytes after it. */
static void note(const void *bytes, size_t size, const char *format, ...) {
    static int to = -1;
    const char *path = getenv("OURO_RECORD");
    char line[4352];
    va_list arguments;
    if (!path) return;
    if (to < 0)
        to = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (to < 0 || length < 0 || (size_t)length >= sizeof line ||
        syscall(SYS_write, to, line, (size_t)length) != length ||
        (size && syscall(SYS_write, to, bytes, size) != (long)size))
        abort();
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    const int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (file >= 0) note(NULL, 0, "open %d %d %s\n", file, flags, path);
    return file;
}

ssize_t write(int file, const void *bytes, size_t size) {
    const ssize_t written = syscall(SYS_write, file, bytes, size);
    if (written >= 0) note(bytes, (size_t)written, "write %d %zd\n", file, written);
    return written;
}

int fsync(int file) {
    const int result = (int)syscall(SYS_fsync, file);
    if (!result) note(NULL, 0, "fsync %d\n", file);
    return result;
}

int close(int file) {
    const int result = (int)syscall(SYS_close, file);
    if (!result) note(NULL, 0, "close %d\n", file);
    return result;
}

int rename(const char *from, const char *to) {
    const int result = (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    if (!result) note(NULL, 0, "rename %s %s\n", from, to);
    return result;
}

int unlink(const char *path) {
    const int result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (!result) note(NULL, 0, "unlink %s\n", path);
    return result;
}

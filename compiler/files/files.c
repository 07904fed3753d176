/* SPDX-License-Identifier: Apache-2.0 */
/* files.c: see files.h. */
#include "compiler/files/files.h"
#include "ir/base/file_error.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* As plans in memory need it. */
enum { FILE_ALIGNMENT = 64 };

static base_status read_stream(int descriptor, const char *path, size_t capacity, file_bytes *bytes,
                               base_report *report) {
    size_t used = 0;
    unsigned char *data = NULL;
    if (posix_memalign((void **)&data, FILE_ALIGNMENT, capacity) != 0) return base_fail_memory(report);
    for (;;) {
        if (used == capacity) {
            void *larger = NULL;
            if (capacity > SIZE_MAX / 2 || posix_memalign(&larger, FILE_ALIGNMENT, capacity * 2) != 0) {
                free(data);
                return base_fail_memory(report);
            }
            memcpy(larger, data, used);
            free(data);
            data = larger;
            capacity *= 2;
        }
        ssize_t got = read(descriptor, data + used, capacity - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            base_status status = base_fail_file(report, path, "cannot read", errno);
            free(data);
            return status;
        }
        if (got == 0) break;
        used += (size_t)got;
    }
    *bytes = (file_bytes){.data = data, .size = used};
    return BASE_OK;
}

base_status file_read(const char *path, file_bytes *bytes, base_report *report) {
    *bytes = (file_bytes){0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return base_fail_file(report, path, "cannot open", errno);
    /* One byte more than the file is thought to have, so that its end is seen without growing the memory. */
    struct stat about;
    size_t expected = fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0 &&
                              (uint64_t)about.st_size < SIZE_MAX / 2
                          ? (size_t)about.st_size + 1
                          : 1 << 16;
    base_status status = read_stream(descriptor, path, expected, bytes, report);
    close(descriptor);
    return status;
}

void file_release(file_bytes *bytes) {
    free(bytes->data);
    *bytes = (file_bytes){0};
}

static int write_all(int descriptor, const unsigned char *bytes, size_t size) {
    while (size) {
        ssize_t put = write(descriptor, bytes, size > 1u << 30 ? 1u << 30 : size);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno;
        bytes += put;
        size -= (size_t)put;
    }
    return 0;
}

/* ---- writing ----
 *
 * A file is written under another name in the same folder, its bytes are made to last (fsync), and only then it gets its name
 * (rename), so that at any time the name stands for the whole old file or the whole new one. The other name is PATH.tmp-N with
 * the smallest N that nobody uses. Its writer holds a lock on it (flock), which goes with the process however that ends: a
 * temporary file that can be locked was left by a killed run, and is removed by the next one that wants its name. */

enum { TEMPORARY_NAMES = 1000 };

static base_status fail_write(base_report *report, const char *path, int number) {
    char text[BASE_ERROR_TEXT];
    return base_fail(report, BASE_SYSTEM_ERROR, "%s: cannot write: %s", path, base_error_text(number, text));
}

/* The open file is the one that has this name. Who holds its lock can rely on that: the name changes under the lock only. */
static bool has_name(int descriptor, const char *name) {
    struct stat opened, named;
    return fstat(descriptor, &opened) == 0 && lstat(name, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* Removes a temporary file whose writer is gone. False: somebody is writing it. */
static bool remove_stale(const char *name) {
    int descriptor = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return errno == ENOENT;
    bool stale = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    bool gone = stale && (!has_name(descriptor, name) || unlink(name) == 0);
    close(descriptor);
    return gone;
}

/* Makes and locks a new file under one of the temporary names of `path`, and leaves that in `name`. -1: errno tells. */
static int open_temporary(const char *path, char *name, size_t capacity) {
    for (int n = 0; n < TEMPORARY_NAMES; n++) {
        snprintf(name, capacity, "%s.tmp-%d", path, n);
        /* Between making a file and locking it another run may take it for a stale one: then it is made again. */
        for (int tries = 0; tries < 100; tries++) {
            int descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
            if (descriptor < 0 && errno != EEXIST) return -1;
            if (descriptor < 0) {
                if (!remove_stale(name)) break;
                continue;
            }
            if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && has_name(descriptor, name)) return descriptor;
            close(descriptor);
        }
    }
    errno = EBUSY;
    return -1;
}

/* The folder of `path` keeps what happened to its names, also if the machine fails now. Some file systems have no such thing
 * (EINVAL): they keep what they can. */
static int sync_folder(const char *path, char *scratch) {
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    memcpy(scratch, slash ? path : ".", slash ? length : 1);
    scratch[slash ? length : 1] = 0;
    int descriptor = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return errno == EACCES ? 0 : errno; /* a folder that may be written but not read */
    int number = fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
    close(descriptor);
    return number;
}

static int sync_file(int descriptor) {
    return fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
}

static base_status write_whole(const char *path, const void *bytes, size_t size, base_report *report) {
    size_t capacity = strlen(path) + 32;
    char *name = malloc(capacity);
    if (!name) return base_fail_memory(report);
    int descriptor = open_temporary(path, name, capacity);
    int number = descriptor < 0 ? errno : 0;
    if (descriptor >= 0) {
        number = write_all(descriptor, bytes, size);
        if (!number) number = sync_file(descriptor);
        if (!number && rename(name, path) != 0) number = errno;
        if (number) unlink(name);
        if (close(descriptor) != 0 && !number) number = errno;
        if (!number) number = sync_folder(path, name);
    }
    free(name);
    return number ? fail_write(report, path, number) : BASE_OK;
}

static base_status write_directly(const char *path, const void *bytes, size_t size, base_report *report) {
    int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return fail_write(report, path, errno);
    int number = write_all(descriptor, bytes, size);
    if (close(descriptor) != 0 && !number) number = errno;
    return number ? fail_write(report, path, number) : BASE_OK;
}

/* A link that somebody else may have put there: it stands in a folder that all may write, and neither we nor the folder's
 * owner made it. */
static bool is_foreign_link(const char *path, const struct stat *link) {
    struct stat folder;
    const char *slash = strrchr(path, '/');
    char *parent = slash ? strndup(path, (size_t)(slash - path) + 1) : NULL;
    bool known = (!slash || parent) && stat(parent ? parent : ".", &folder) == 0;
    free(parent);
    return !known ||
           ((folder.st_mode & S_IWOTH) && link->st_uid != geteuid() && link->st_uid != folder.st_uid);
}

base_status file_write(const char *path, const void *bytes, size_t size, base_report *report) {
    struct stat named, about;
    bool there = lstat(path, &named) == 0;
    bool followed = there && stat(path, &about) == 0;
    if (followed && S_ISDIR(about.st_mode)) {
        return base_fail(report, BASE_INVALID, "%s: is a directory, expected a file to write", path);
    }
    if (there && S_ISLNK(named.st_mode) && is_foreign_link(path, &named)) {
        return base_fail(
            report, BASE_INVALID,
            "%s: is somebody else's link in a folder that all may write, expected a file of your own", path);
    }
    return followed && !S_ISREG(about.st_mode) ? write_directly(path, bytes, size, report)
                                               : write_whole(path, bytes, size, report);
}

base_status file_make_directory(const char *path, base_report *report) {
    size_t length = strlen(path);
    char *copy = malloc(length + 1);
    if (!copy) return base_fail_memory(report);
    memcpy(copy, path, length + 1);
    base_status status = BASE_OK;
    for (size_t i = 1; i <= length && status == BASE_OK; i++) {
        if (copy[i] != '/' && copy[i] != 0) continue;
        char kept = copy[i];
        copy[i] = 0;
        struct stat about;
        int number = mkdir(copy, 0777) == 0 ? 0 : errno;
        bool exists = number && stat(copy, &about) == 0;
        if (number && !(exists && S_ISDIR(about.st_mode))) {
            char text[BASE_ERROR_TEXT];
            if (exists) number = ENOTDIR;
            status = base_fail(report, BASE_SYSTEM_ERROR, "%s: cannot make the directory: %s", path,
                               base_error_text(number, text));
        }
        copy[i] = kept;
    }
    free(copy);
    return status;
}

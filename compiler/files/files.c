/* files.c: see files.h. */
#include "compiler/files/files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As plans in memory need it. */
enum { FILE_ALIGNMENT = 64 };

/* The user named a wrong file (1), or the machine failed (3). */
static base_status fail_errno(base_report *report, const char *path, const char *what, int number) {
    bool users = number == ENOENT || number == ENOTDIR || number == EISDIR || number == EACCES ||
                 number == EPERM || number == ENAMETOOLONG || number == ELOOP;
    char text[128];
    const char *message = strerror_r(number, text, sizeof text);
    return base_fail(report, users ? BASE_INVALID : BASE_SYSTEM_ERROR, "%s: %s: %s", path, what, message);
}

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
            base_status status = fail_errno(report, path, "cannot read", errno);
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
    if (descriptor < 0) return fail_errno(report, path, "cannot open", errno);
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

base_status file_write(const char *path, const void *bytes, size_t size, base_report *report) {
    struct stat about;
    bool direct = stat(path, &about) == 0 && !S_ISREG(about.st_mode);
    if (direct && S_ISDIR(about.st_mode)) {
        return base_fail(report, BASE_INVALID, "%s: is a directory, expected a file to write", path);
    }
    char *temporary = NULL;
    const char *target = path;
    if (!direct) {
        size_t length = strlen(path) + 32;
        temporary = malloc(length);
        if (!temporary) return base_fail_memory(report);
        snprintf(temporary, length, "%s.tmp-%ld", path, (long)getpid());
        target = temporary;
    }
    base_status status = BASE_OK;
    int descriptor =
        open(target, direct ? O_WRONLY | O_CLOEXEC : O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        int number = errno;
        char text[128];
        status = base_fail(report, BASE_SYSTEM_ERROR, "%s: cannot write: %s", path,
                           strerror_r(number, text, sizeof text));
    } else {
        int number = write_all(descriptor, bytes, size);
        if (close(descriptor) != 0 && !number) number = errno;
        if (!number && !direct && rename(temporary, path) != 0) number = errno;
        if (number) {
            char text[128];
            if (!direct) unlink(temporary);
            status = base_fail(report, BASE_SYSTEM_ERROR, "%s: cannot write: %s", path,
                               strerror_r(number, text, sizeof text));
        }
    }
    free(temporary);
    return status;
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
            char text[128];
            if (exists) number = ENOTDIR;
            status = base_fail(report, BASE_SYSTEM_ERROR, "%s: cannot make the directory: %s", path,
                               strerror_r(number, text, sizeof text));
        }
        copy[i] = kept;
    }
    free(copy);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fail.c: a library to load before a program (LD_PRELOAD), in which one thing goes wrong: OURO_FAIL says what (memory, files, threads, short: a
 * transfer of bytes that does half of what it was asked), OURO_FAIL_AT which call of that kind since main began (0: none). `OURO_FAIL_ON=1`: all
 * after it fail too, as when memory is gone for good. OURO_FAIL_COUNT names a file for the number of such calls that there were. Used by
 * faults.sh. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MEMORY = 1, FILES, THREADS, SHORT };

static atomic_long count;
static long fail_at;
static int kind; /* 0: main has not begun, or it has ended */
static bool on;

static bool fails(int of) {
    if (of != kind) return false;
    const long number = atomic_fetch_add(&count, 1) + 1;
    return fail_at && (on ? number >= fail_at : number == fail_at);
}

/* The C library's function that one of ours stands before. Looked up without memory of its own. */
#define NEXT(name)                                                                                           \
    static __typeof__(name) *next_##name;                                                                    \
    if (!next_##name) *(void **)&next_##name = dlsym(RTLD_NEXT, #name)

/* ---- memory: the program's own malloc (compiler/command/allocations.c) calls these ---------------------------- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t number, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *__libc_malloc(size_t bytes) {
    NEXT(__libc_malloc);
    return fails(MEMORY) ? errno = ENOMEM, NULL : next___libc_malloc(bytes);
}

void *__libc_calloc(size_t number, size_t bytes) {
    NEXT(__libc_calloc);
    return fails(MEMORY) ? errno = ENOMEM, NULL : next___libc_calloc(number, bytes);
}

void *__libc_realloc(void *block, size_t bytes) {
    NEXT(__libc_realloc);
    return fails(MEMORY) ? errno = ENOMEM, NULL : next___libc_realloc(block, bytes);
}

void *__libc_memalign(size_t alignment, size_t bytes) {
    NEXT(__libc_memalign);
    return fails(MEMORY) ? errno = ENOMEM, NULL : next___libc_memalign(alignment, bytes);
}

/* ---- files ---------------------------------------------------------------------------------------------------- */

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return fails(FILES) ? errno = EIO, -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* How many bytes are moved at once. */
static size_t moved(size_t size) {
    return size > 1 && fails(SHORT) ? size / 2 : size;
}

ssize_t read(int file, void *bytes, size_t size) {
    return fails(FILES) ? errno = EIO, -1 : syscall(SYS_read, file, bytes, moved(size));
}

ssize_t write(int file, const void *bytes, size_t size) {
    return fails(FILES) ? errno = ENOSPC, -1 : syscall(SYS_write, file, bytes, moved(size));
}

ssize_t pread(int file, void *bytes, size_t size, off_t at) {
    return fails(FILES) ? errno = EIO, -1 : syscall(SYS_pread64, file, bytes, moved(size), at);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t at) {
    return fails(FILES) ? errno = ENOSPC, -1 : syscall(SYS_pwrite64, file, bytes, moved(size), at);
}

int posix_fallocate(int file, off_t at, off_t size) {
    NEXT(posix_fallocate);
    return fails(FILES) ? ENOSPC : next_posix_fallocate(file, at, size);
}

int ftruncate(int file, off_t size) {
    return fails(FILES) ? errno = EIO, -1 : (int)syscall(SYS_ftruncate, file, size);
}

int unlink(const char *path) {
    return fails(FILES) ? errno = EIO, -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int fsync(int file) {
    return fails(FILES) ? errno = EIO, -1 : (int)syscall(SYS_fsync, file);
}

int rename(const char *from, const char *to) {
    return fails(FILES) ? errno = EIO, -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int fstat(int file, struct stat *status) {
    NEXT(fstat);
    return fails(FILES) ? errno = EIO, -1 : next_fstat(file, status);
}

FILE *fopen(const char *path, const char *mode) {
    NEXT(fopen);
    return fails(FILES) ? errno = EIO, NULL : next_fopen(path, mode);
}

int fclose(FILE *file) {
    NEXT(fclose);
    const bool failed = fails(FILES);
    const int result = next_fclose(file);
    return failed ? errno = EIO, EOF : result;
}

int fflush(FILE *file) {
    NEXT(fflush);
    return fails(FILES) ? errno = ENOSPC, EOF : next_fflush(file);
}

FILE *open_memstream(char **text, size_t *size) {
    NEXT(open_memstream);
    return fails(FILES) ? errno = ENOMEM, NULL : next_open_memstream(text, size);
}

/* ---- threads -------------------------------------------------------------------------------------------------- */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *user) {
    NEXT(pthread_create);
    return fails(THREADS) ? EAGAIN : next_pthread_create(thread, attributes, run, user);
}

/* ---- main is put between ---------------------------------------------------------------------------------- */

typedef int main_function(int, char **, char **);
static main_function *program;

static int counted(int argument_count, char **arguments, char **environment) {
    const char *of = getenv("OURO_FAIL"), *at = getenv("OURO_FAIL_AT"), *file = getenv("OURO_FAIL_COUNT");
    fail_at = at ? strtol(at, NULL, 10) : 0;
    on = getenv("OURO_FAIL_ON");
    kind = !of ? 0 : strcmp(of, "memory") == 0 ? MEMORY : strcmp(of, "files") == 0 ? FILES : strcmp(of, "short") == 0 ? SHORT : THREADS;
    const int status = program(argument_count, arguments, environment);
    kind = 0;
    const int to = file ? open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (to >= 0) {
        dprintf(to, "%ld\n", atomic_load(&count));
        close(to);
    }
    return status;
}

int __libc_start_main(main_function *main, int argument_count, char **arguments, void (*begin)(void),
                      void (*end)(void), void (*loader_end)(void), void *stack);

int __libc_start_main(main_function *main, int argument_count, char **arguments, void (*begin)(void),
                      void (*end)(void), void (*loader_end)(void), void *stack) {
    NEXT(__libc_start_main);
    program = main;
    return next___libc_start_main(counted, argument_count, arguments, begin, end, loader_end, stack);
}

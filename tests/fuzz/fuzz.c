/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.c: see fuzz.h. */
#include "tests/fuzz/fuzz.h"
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64], path[160];

static int remove_entry(const char *name, const struct stat *status, int kind, struct FTW *walk) {
    (void)status, (void)kind, (void)walk;
    return remove(name);
}

static void remove_folder(void) {
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void) {
    if (folder[0]) return folder;
    /* In memory where that is possible: a target writes a file in each run. */
    snprintf(folder, sizeof folder, "%s/ouro-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(folder)) {
        perror(folder);
        abort();
    }
    atexit(remove_folder);
    return folder;
}

const char *fuzz_file(const char *name, const void *data, size_t size) {
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, data, size) != (ssize_t)size) {
        perror(path);
        abort();
    }
    close(file);
    return path;
}

void fuzz_found(const char *text) {
    fprintf(stderr, "%s\n", text);
    abort();
}

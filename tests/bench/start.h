/* SPDX-License-Identifier: Apache-2.0 */
/* start.h: what bench_start.c and bench_start_onnxruntime.c share. */
#ifndef BENCH_START_H
#define BENCH_START_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { START_RANK = 16 };

static inline double start_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Extents written as 1x3x224x224, or nothing of a scalar; the number of elements. `rank` may be NULL. */
static inline size_t start_dims(const char *text, int64_t *dims, int32_t *rank) {
    size_t elements = 1;
    int32_t count = 0;
    while (*text && count < START_RANK) {
        char *end;
        dims[count] = strtoll(text, &end, 10);
        elements *= (size_t)dims[count++];
        text = *end ? end + 1 : end;
    }
    if (rank) *rank = count;
    return elements;
}

/* The most memory that this program has had, in bytes: not that of what started it, as getrusage tells. */
static inline long long start_memory(void) {
    char line[128];
    long long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0) kilobytes = strtoll(line + 6, NULL, 10);
    if (status) fclose(status);
    return kilobytes * 1024;
}

/* Seconds to the first output; of these to open the model, to make the session, to run; bytes of memory at most. */
static inline void start_print(double all, double open, double session, double run) {
    printf("%.6f %.6f %.6f %.6f %lld\n", all, open, session, run, start_memory());
}

#endif

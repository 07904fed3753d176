/* SPDX-License-Identifier: Apache-2.0 */
/* bench_threads.c: what a step on several threads takes beyond its work, and what the threads take while nothing runs: microseconds of
 * a step that does nothing, and milliseconds of the processor after each of 50 such steps that are 20 ms apart. Both depend on how long
 * OpenMP's threads look for work before they sleep: run it with GOMP_SPINCOUNT=5000, too.
 * Run by hand: bench_threads [THREADS].
 */
#include "runtime/kernels/base/kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void do_nothing(void *context, int member, int members) {
    (void)context;
    (void)member;
    (void)members;
}

int main(int argc, char **argv) {
    enum { STEPS = 100000, PAUSES = 50 };
    const int threads = argc > 1 ? atoi(argv[1]) : 2;
    rt_threads_warm(threads);
    double start = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < STEPS; i++) rt_team_run(threads, do_nothing, NULL);
    printf("%d threads: %.2f us a step\n", threads, (seconds(CLOCK_MONOTONIC) - start) * 1e6 / STEPS);
    start = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < PAUSES; i++) {
        rt_team_run(threads, do_nothing, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    printf("%.2f ms of the processor after each\n",
           (seconds(CLOCK_PROCESS_CPUTIME_ID) - start) * 1e3 / PAUSES);
    return 0;
}
